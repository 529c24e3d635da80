package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"swh-scheduler/internal/cli/command"
	"swh-scheduler/internal/pytext"
	"swh-scheduler/sql/db"
)

func newHostersReset(a *command.App) *cobra.Command {
	confirm := false
	cmd := &cobra.Command{
		Use:   "reset [OPTIONS] HOSTER",
		Short: "Forget that a hoster refused visits",
		Long: `Forget the limit that a hoster has because it refused visits: an instance of a lister
(NAME/INSTANCE), or a host. The next claim gives it as many visits as the configuration
allows. Without --confirm, the command shows the limit and changes nothing.

Origins whose visits the hoster refused still wait for their time.`,
		Example: `  swh-scheduler hosters reset git.example.org
  swh-scheduler hosters reset gitlab/gitlab.example --confirm`,
		Args: command.Args("HOSTER"),
	}
	cmd.Flags().BoolVar(&confirm, "confirm", false, "forget the limit")
	cmd.RunE = a.OnStore(func(ctx context.Context, _ *cobra.Command, store *db.Store, args []string) error {
		if err := store.CheckVersion(ctx); err != nil {
			return err
		}
		hoster := args[0]
		s, known, err := store.RefusingHoster(ctx, hoster)
		if err != nil {
			return err
		}
		if !known {
			return fmt.Errorf("the hoster %q refused no visit of late (write NAME/INSTANCE or a host in lower case, as in hosters status)", hoster)
		}
		if !confirm {
			limit := "no limit"
			if most, limited := s.Max(store.Now()); limited {
				limit = fmt.Sprintf("at most %d in flight", most)
			}
			return a.Print(fmt.Sprintf("%s refused a visit last at %s (%s), and has %s. --confirm forgets that.\n",
				pytext.Visible(hoster), s.Refused.UTC().Format(time.RFC3339), s.Kind, limit))
		}
		if _, err := store.ForgetRefusingHoster(ctx, hoster); err != nil {
			return err
		}
		return a.Print(fmt.Sprintf("The refusals of %s are forgotten.\n", pytext.Visible(hoster)))
	})
	return cmd
}
