package main

import (
	"github.com/spf13/cobra"
)

func newConfig(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:                   "config [OPTIONS] COMMAND [ARGS]...",
		Short:                 "Check and show the configuration",
		TraverseChildren:      true,
		DisableFlagsInUseLine: true,
		RunE:                  group,
	}
	cmd.AddCommand(newConfigCheck(a), newConfigShow(a))
	return cmd
}
