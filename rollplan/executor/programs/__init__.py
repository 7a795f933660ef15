"""Programs of jobs that come with rollplan; see `rollplan.executor.api`."""
