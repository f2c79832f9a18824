"""The decision log: what was decided on which grounds, kept in a bounded ring and read again.

SchedulingLoop --tuples--> DecisionLog (buffer) --thread--> frames --> DirectoryStore
                                                                  '--> MemoryStore
"""
