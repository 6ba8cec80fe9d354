"""What clients import: `Client` for threads, `AsyncClient` for asyncio. One connection under both."""
