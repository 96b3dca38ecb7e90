"""Says how a flow is, in the status topic on its target."""
