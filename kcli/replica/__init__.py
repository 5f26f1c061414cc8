"""The decisions of leaders and followers about a partition, for example about the high watermark, the ISR and waiting
requests. This package does no input or output."""
