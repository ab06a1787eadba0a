"""Lists of jobs, who does them and what is done already; what a job computes is for others."""

from mdpnewton.executors import ClusterLostError
from mdpnewton.jobs.checkpoint import Checkpoint, job_checkpoint
from mdpnewton.jobs.cluster import Cluster
from mdpnewton.jobs.job import Job, gathered
from mdpnewton.jobs.processes import Here, Processes, WorkerDiedError
from mdpnewton.jobs.store import JobFolder, NotAllDoneError, Progress, Survey

__all__ = [
    "Checkpoint",
    "Cluster",
    "ClusterLostError",
    "Here",
    "Job",
    "JobFolder",
    "NotAllDoneError",
    "Processes",
    "Progress",
    "Survey",
    "WorkerDiedError",
    "gathered",
    "job_checkpoint",
]
