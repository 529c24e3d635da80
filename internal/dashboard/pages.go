package dashboard

// pages are all pages, in the order of the navigation.
var pages = []Page{
	overviewPage,
	queuesPage, queuePage,
	listersPage,
	daemonsPage,
	reportsPage,
	runbooksPage,
	loginPage,
}
