"""The rule at work in a session: enable, plan, explain, measure."""
