// Package session has the commands that show and end sessions of the dashboard.
package session

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"swh-scheduler/internal/cli/command"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/pytext"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/sessions"
)

func New(a *command.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "session [OPTIONS] COMMAND [ARGS]...",
		Short: "Show and end sessions of the dashboard",
	}
	cmd.AddCommand(newList(a), newEnd(a))
	return cmd
}

// onSessions makes the function of a command on sessions. These need a database of one's own.
func onSessions(a *command.App, do func(ctx context.Context, cmd *cobra.Command, s *sessions.Store, args []string) error) func(*cobra.Command, []string) error {
	return a.Configured(func(cmd *cobra.Command, args []string) error {
		if _, err := a.DSN(cmd); err != nil { // sessions can't be read through an RPC server
			return err
		}
		return a.WithStore(cmd, func(ctx context.Context, store *db.Store) error {
			if err := store.CheckVersion(ctx); err != nil {
				return err
			}
			return do(ctx, cmd, sessions.New(store.DB), args)
		})
	})
}

func newList(a *command.App) *cobra.Command {
	output := "text"
	cmd := &cobra.Command{
		Use:   "list [OPTIONS]",
		Short: "List the sessions of the dashboard",
		Long:  "List the sessions of the dashboard that have not ended, the newest first: who logged in,\nfrom where, and until when it lasts.",
		Args:  cobra.NoArgs,
	}
	command.OutputFlag(cmd.Flags(), &output)
	cmd.RunE = onSessions(a, func(ctx context.Context, _ *cobra.Command, s *sessions.Store, _ []string) error {
		all, err := s.List(ctx)
		if err != nil {
			return err
		}
		rows := [][]string{}
		for _, one := range all {
			rows = append(rows, []string{
				fmt.Sprint(one.ID), a.Line(one.Who), one.Began.UTC().Format(time.DateTime), one.Ends.UTC().Format(time.DateTime), a.Line(one.Address),
			})
		}
		return a.Show(output, all, pytext.Table([]string{"session", "user", "began (UTC)", "ends (UTC)", "from"}, rows)+"\n")
	})
	return cmd
}

func newEnd(a *command.App) *cobra.Command {
	var users []string
	everyones := false
	cmd := &cobra.Command{
		Use:   "end [OPTIONS] [SESSIONS]...",
		Short: "End sessions of the dashboard",
		Long: `End sessions of the dashboard: those with the given numbers (see session list), all of a
user (--user), or all (--all), which also renews the key that signs forms. Users of ended
sessions have to log in again.`,
		Args: cobra.ArbitraryArgs,
	}
	cmd.Flags().StringArrayVar(&users, "user", nil, "end all sessions of this `USER`; may be repeated")
	cmd.Flags().BoolVar(&everyones, "all", false, "end everyone's sessions")
	cmd.RunE = onSessions(a, func(ctx context.Context, cmd *cobra.Command, s *sessions.Store, args []string) error {
		var ids []int64
		for _, arg := range args {
			id, err := strconv.ParseInt(arg, 10, 64)
			if err != nil {
				return command.Usagef(cmd, "Invalid value for '[SESSIONS]...': '%s' is not a valid integer.", arg)
			}
			ids = append(ids, id)
		}
		given := len(ids) + len(users)
		if everyones == (given > 0) {
			return command.Usagef(cmd, "Give numbers of sessions, --user or --all.")
		}
		var ended int64
		var err error
		if everyones {
			ended, err = s.EndAll(ctx)
		} else {
			ended, err = s.EndSome(ctx, ids, users)
		}
		if err != nil {
			return err
		}
		a.Log.Info("sessions ended", "ended", ended, "sessions", strings.Join(args, " "), "users", users, "all", everyones)
		return a.Print(model.Count(ended, "session has", "sessions have") + " ended.\n")
	})
	return cmd
}
