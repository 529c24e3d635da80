package model

// DoorDaemons are the daemons that may use an RPC server's door, by their commands. Each has a role in the database.
var DoorDaemons = []string{"start-runner", "start-runner-first-visits", "start-listener", "schedule-recurrent", "journal-client", "update-metrics"}
