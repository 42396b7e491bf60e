"""A Java for small tables."""

OPTIONS = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""For a process that starts Spark: its JVM compiles quickly and not well, and is through with a test's few rows in half
the time. What it computes is the same."""
