package door

const (
	// Path is where a client asks for a connection to the database.
	Path = "/scheduler_go/database"
	// Protocol is the value of the request's Upgrade header.
	Protocol = "postgresql"
)
