"""Commands that make the pipeline's tables and look at them."""
