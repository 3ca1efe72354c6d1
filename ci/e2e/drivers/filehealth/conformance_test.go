package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestConformance checks the driver with drahealth. Exit codes: 0 conforms, 1 fails, 2 usage, 3 drahealth or its
// environment failed, 4 incomplete. Run it with: go test -v -run TestConformance
func TestConformance(t *testing.T) {
	drahealth, err := exec.LookPath("drahealth")
	if err != nil {
		t.Skip("drahealth is not on PATH; install it with: pip install PATH_OF_ITS_REPOSITORY")
	}
	driver := filepath.Join(t.TempDir(), "filehealth")
	if output, err := exec.Command("go", "build", "-o", driver, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, output)
	}
	check := exec.CommandContext(t.Context(), drahealth, "check", "--", driver,
		"--node-name", "{node_name}", "--kubeconfig", "{kubeconfig}",
		"--plugin-dir", "{driver_dir}", "--registrar-dir", "{registry_dir}", "--cdi-dir", "{cdi_dir}")
	check.Stdout, check.Stderr = os.Stdout, os.Stderr
	if err := check.Run(); err != nil {
		t.Fatalf("drahealth check: %v", err)
	}
}
