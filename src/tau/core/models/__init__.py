"""Model patterns, thinking levels, pricing, classification of provider errors."""
