"""The pipeline as a service: its tables in SQL, and its report, for whoever may call them. Changes nothing."""
