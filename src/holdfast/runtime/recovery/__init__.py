"""How a job goes on where an earlier start of it stopped.

Source: FLIP-383, "JobMaster failover".
"""
