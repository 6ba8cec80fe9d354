"""How Famulus is proven, measured and shown: simulation, chaos, benchmarks, synthetic journals and the demo."""
