"""Decisions. Pure: nothing here knows that asyncio, clocks or disks exist."""
