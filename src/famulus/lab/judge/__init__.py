"""How well the pipeline's findings tell what is wrong: troubles are planted in synthetic journals, and looked for."""
