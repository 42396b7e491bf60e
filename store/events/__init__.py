"""The event table on disk. See the README of `store`."""
