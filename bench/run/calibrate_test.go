package run

import "testing"

// However busy the machine is, the generator's ceiling is known: 0 would read as
// not measured.
func TestTheCeilingIsKnown(t *testing.T) {
	rate, err := Calibrate(t.Context())
	if err != nil || rate < 20 {
		t.Errorf("the generator manages %v requests a second, %v", rate, err)
	}
}
