package command

import (
	"testing"

	"github.com/spf13/cobra"
)

// The application name of a connection distinguishes the runner of tasks with priority.
func TestProgramNames(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		arguments []string
		want      string
	}{{nil, "start-runner"}, {[]string{"--with-priority"}, "start-runner --with-priority"}, {[]string{"--without-priority"}, "start-runner"}} {
		var priority bool
		cmd := &cobra.Command{Use: "start-runner", RunE: func(cmd *cobra.Command, _ []string) error {
			if name := programName(cmd); name != c.want {
				t.Errorf("%v: %q, want %q", c.arguments, name, c.want)
			}
			return nil
		}}
		Pair(cmd.Flags(), &priority, WithPriority, "", "without-priority", "", "")
		cmd.SetArgs(c.arguments)
		if err := cmd.Execute(); err != nil {
			t.Error(err)
		}
	}
}
