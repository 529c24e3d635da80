package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"swh-scheduler/internal/cli/command"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/pytext"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/origins"
)

func newLister(a *command.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lister [OPTIONS] COMMAND [ARGS]...",
		Short: "Listers, their weights, and the origins that their listings lack",
	}
	cmd.AddCommand(newListerGone(a), newListerWeight(a))
	return cmd
}

func newListerGone(a *command.App) *cobra.Command {
	var confirm, dismiss bool
	limit := 20
	output := "text"
	cmd := &cobra.Command{
		Use:   "gone [OPTIONS] [NAME/INSTANCE]",
		Short: "Show which origins full listings lack, and let them go",
		Long: `Show the last full listing of each lister with a rule in the configuration
(gone_origins), or of one instance with the origins that it lacks. Without --confirm and
--dismiss, the command changes nothing.

A listing that lacks more origins than may go at once is held. --confirm lets them go: a
maintenance job disables them within minutes, until their lister lists them again.
--dismiss leaves them enabled. The next full listing is counted again.`,
		Example: `  swh-scheduler lister gone
  swh-scheduler lister gone gitweb/git.example.org
  swh-scheduler lister gone gitweb/git.example.org --confirm`,
		Args: command.Args("[NAME/INSTANCE]"),
	}
	flags := cmd.Flags()
	flags.BoolVar(&confirm, "confirm", false, "disable the origins that the held listing lacks")
	flags.BoolVar(&dismiss, "dismiss", false, "leave the origins enabled that the held listing lacks")
	flags.IntVar(&limit, "limit", limit, "show at most this `NUMBER` of origins")
	command.Must(flags, "limit", func() bool { return limit >= 0 }, "is negative")
	command.OutputFlag(flags, &output)
	cmd.RunE = a.OnStore(func(ctx context.Context, cmd *cobra.Command, store *db.Store, args []string) error {
		if err := command.Exclusive(cmd, "confirm", "dismiss"); err != nil {
			return err
		}
		if err := store.CheckVersion(ctx); err != nil {
			return err
		}
		listings, err := store.FullListings(ctx)
		if err != nil {
			return err
		}
		if len(args) == 0 {
			if confirm || dismiss {
				return command.Usagef(cmd, "Missing argument 'NAME/INSTANCE'.")
			}
			return showListings(a, listings, output)
		}
		l, err := listingOf(listings, args[0])
		if err != nil {
			return err
		}
		if confirm || dismiss {
			return answerListing(ctx, a, store, l, confirm)
		}
		missing, err := store.MissingOrigins(ctx, l.ID, limit)
		if err != nil {
			return err
		}
		return showListing(a, l, missing, output)
	})
	return cmd
}

// listingOf finds the listing of an instance by its lister's name and its own.
func listingOf(listings []origins.FullListing, instance string) (origins.FullListing, error) {
	for _, l := range listings {
		if l.Name+"/"+l.InstanceName == instance {
			return l, nil
		}
	}
	return origins.FullListing{}, fmt.Errorf("%w: %q (write NAME/INSTANCE, such as gitweb/git.example.org)", model.ErrUnknownLister, instance)
}

func answerListing(ctx context.Context, a *command.App, store *db.Store, l origins.FullListing, confirm bool) error {
	name := l.Name + "/" + l.InstanceName
	held := false
	if l.Run != nil {
		var err error
		if held, err = store.AnswerHeldListing(ctx, l.ID, *l.Run, confirm); err != nil {
			return err
		}
	}
	switch {
	case !held:
		return fmt.Errorf("no listing of %s is held", name)
	case confirm:
		return a.Print(fmt.Sprintf("A maintenance job disables %s of %s within minutes.\n", model.Count(l.Missing, "origin", "origins"), name))
	}
	return a.Print(fmt.Sprintf("The origins of %s stay enabled until the next full listing is counted.\n", name))
}

// listingView is a full listing as JSON.
type listingView struct {
	Lister   string     `json:"lister"`
	Instance string     `json:"instance"`
	State    string     `json:"state"`
	Run      *int64     `json:"run"`
	Ended    *time.Time `json:"ended"`
	Enabled  int64      `json:"enabled"`
	Missing  int64      `json:"missing"`
	Allowed  int64      `json:"allowed"`
	Disabled int64      `json:"disabled"`
	Decided  *time.Time `json:"decided"`
	Doubt    string     `json:"doubt"`
	Gone     int64      `json:"gone"`
	Back     int64      `json:"listed_again"`

	Origins []missingView `json:"origins,omitempty"`
}

type missingView struct {
	URL       string    `json:"url"`
	VisitType string    `json:"visit_type"`
	LastSeen  time.Time `json:"last_seen"`
}

func viewListing(l origins.FullListing) listingView {
	return listingView{
		Lister: l.Name, Instance: l.InstanceName, State: l.State, Run: l.Run, Ended: l.Ended, Enabled: l.Enabled, Missing: l.Missing,
		Allowed: l.Allowed, Disabled: l.Disabled, Decided: l.Decided, Doubt: l.Doubt, Gone: l.Gone, Back: l.Back,
	}
}

// hasRule reports whether gone_origins has a rule for a listing's instance.
func hasRule(a *command.App, l origins.FullListing) bool {
	_, ruled := a.Config.GoneOrigins.Rule(model.Lister{Name: l.Name, InstanceName: l.InstanceName})
	return ruled
}

func showListings(a *command.App, listings []origins.FullListing, output string) error {
	views := []listingView{}
	var rows [][]string
	for _, l := range listings {
		if !hasRule(a, l) && l.Examined == 0 {
			continue
		}
		v := viewListing(l)
		views = append(views, v)
		ended := "-"
		if l.Ended != nil {
			ended = pytext.Datetime(l.Ended.UTC())
		}
		rows = append(rows, []string{
			a.Line(l.Name + "/" + l.InstanceName), l.State, ended, fmt.Sprint(l.Enabled), fmt.Sprint(l.Missing), fmt.Sprint(l.Disabled),
			fmt.Sprint(l.Gone), fmt.Sprint(l.Back), a.Line(l.Doubt),
		})
	}
	text := "No lister has a rule (configuration: gone_origins), or none of those has listed anything.\n"
	if len(rows) > 0 {
		text = pytext.Table([]string{"lister", "state", "ended", "enabled", "missing", "disabled", "gone", "listed again", "why the last run is no full listing"}, rows) + "\n"
	}
	return a.Show(output, views, text)
}

func showListing(a *command.App, l origins.FullListing, missing []origins.MissingOrigin, output string) error {
	view := viewListing(l)
	var text strings.Builder
	name := a.Line(l.Name + "/" + l.InstanceName)
	if !hasRule(a, l) {
		fmt.Fprintf(&text, "The configuration has no rule for %s (gone_origins), so no origin of it is disabled.\n", name)
	}
	if l.Run == nil {
		fmt.Fprintf(&text, "No full listing of %s is known.\n", name)
	} else {
		fmt.Fprintf(&text, "The last full listing of %s, run %d, ended at %s. It lacks %d of %d enabled origins, of which %d may go at once. State: %s.\n",
			name, *l.Run, pytext.Datetime(l.Ended.UTC()), l.Missing, l.Enabled, l.Allowed, l.State)
	}
	if l.Doubt != "" {
		fmt.Fprintf(&text, "The last run, %d, is no full listing: %s.\n", l.Examined, a.Line(l.Doubt))
	}
	fmt.Fprintf(&text, "In all, %d were disabled, and %d of these listed again.\n", l.Gone, l.Back)
	if len(missing) > 0 {
		rows := make([][]string, len(missing))
		for i, o := range missing {
			rows[i] = []string{a.Line(o.URL), o.VisitType, pytext.Datetime(o.LastSeen.UTC())}
			view.Origins = append(view.Origins, missingView(o))
		}
		text.WriteString("\n" + pytext.Table([]string{"enabled and missing", "visit_type", "last_seen"}, rows) + "\n")
	}
	return a.Show(output, view, text.String())
}
