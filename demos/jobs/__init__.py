"""Whatever takes time: how runs are driven, stopped and watched."""
