"""The decision log: records of decisions in a ring of bounded size, and their readers.

SchedulingLoop --tuples--> DecisionLog (buffer) --thread--> frames --> DirectoryStore
                                                                  '--> MemoryStore
"""
