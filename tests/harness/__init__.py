"""What the whole-system tests share: real servers, real processes, and waiting without sleeping."""
