"""Speed and memory of storages, side by side: what is written, who writes it, and what came out."""
