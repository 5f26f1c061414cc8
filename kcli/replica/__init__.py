"""The leader's decisions on a partition (high watermark, ISR, waiting requests that are due), without input or
output."""
