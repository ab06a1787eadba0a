"""The compiler and the compiled loops of Tetris; what they must compute is said in `plain`."""
