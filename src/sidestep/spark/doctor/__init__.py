"""The state of all that sidestep rests on: versions, the bridge, workers, credentials, tables; and what to do."""
