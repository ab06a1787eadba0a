"""Files in and out: run folders and model files."""
