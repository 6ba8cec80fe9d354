"""How the tables are small_frame up to date: plan, jobs, state, schedule."""
