package dashboard

// pages are all pages, in the order of the navigation.
var pages = []Page{
	overviewPage,
	errorsPage, runningPage, typePage,
	queuesPage, queuePage,
	hostersPage,
	tasksPage, taskPage,
	originsPage, originPage,
	freshnessPage,
	listersPage,
	graphsPage, graphPage,
	daemonsPage,
	asidePage,
	auditPage, changePage,
	reportsPage,
	runbooksPage,
	searchPage,
	loginPage,
}
