"""Spark over the cluster's events: how to get at them, and questions to ask them. See the README.

Nothing here imports Spark, Java or Ray until it is asked for.
"""
