// A folder for `include:`.
