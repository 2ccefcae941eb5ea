"""DML, the language of Apache SystemDS: its words, literals and syntax tree, for both directions."""
