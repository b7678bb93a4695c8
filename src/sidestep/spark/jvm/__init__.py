"""Everything that crosses to the JVM: the bridge, the plan on its way here, the answers on their way back."""
