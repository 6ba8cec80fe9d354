"""The record of everything a broker did, as Parquet files: one row per event, one schema per table."""
