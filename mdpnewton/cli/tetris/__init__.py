"""The commands under `mdpnewton tetris`, one file each; the games are in `domains.tetris`."""
