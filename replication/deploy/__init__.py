"""What runs on the machine that submits or builds: the command line of Spark, and the artifacts."""
