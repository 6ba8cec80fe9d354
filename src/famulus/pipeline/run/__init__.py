"""How the tables are brought up to date: plan, jobs, state, schedule."""
