package model

// DoorDaemons are the daemons that work through an RPC server, by their commands. The door has a role of the database for each.
var DoorDaemons = []string{"start-runner", "start-runner-first-visits", "start-listener", "schedule-recurrent", "journal-client", "update-metrics"}
