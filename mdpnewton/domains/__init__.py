"""The paper's problems and their simulators; nothing here learns."""
