"""What the whole-system tests stand on: real servers, real processes, and waiting without sleeping."""
