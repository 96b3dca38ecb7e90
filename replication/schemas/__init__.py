"""The rules of schema registries: what a record carries, names of subjects, how two differ."""
