package dashboard

// pages are all pages, in the order of the navigation.
var pages = []Page{
	overviewPage,
	tasksPage, taskPage,
	originsPage, originPage,
	graphsPage, graphPage,
	asidePage,
	auditPage, changePage,
	loginPage,
}
