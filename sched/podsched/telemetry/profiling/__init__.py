"""What a process does and keeps, for ``go tool pprof`` and speedscope: /debug/pprof/."""
