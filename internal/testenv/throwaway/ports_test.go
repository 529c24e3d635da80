package throwaway

import "testing"

// A process gets no port twice: a server binds its port seconds after it was chosen, when the next server's is chosen.
func TestFreePortsAreGivenOnce(t *testing.T) {
	seen := map[int]bool{}
	for range 100 {
		for _, offsets := range [][]int{nil, {managementOffset}} {
			ports, err := FreePorts(3, offsets...)
			if err != nil {
				t.Fatal(err)
			}
			for _, port := range ports {
				for _, used := range append([]int{0}, offsets...) {
					if seen[port+used] {
						t.Fatalf("port %d was given twice", port+used)
					}
					seen[port+used] = true
				}
			}
		}
	}
}
