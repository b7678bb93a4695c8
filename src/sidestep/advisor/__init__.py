"""What should a table get? Layouts and synopses, judged on samples by what queries would read."""
