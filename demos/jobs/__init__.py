"""Whatever takes time: training jobs, how they are driven and stopped, and the example that is watched."""
