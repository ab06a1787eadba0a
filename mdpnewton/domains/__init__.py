"""Problems: one file each."""
