// Renders, lints and decodes the Helm chart for the tests.
//
// Built on the packages in which Helm itself does this. The helm command adds only a cluster's client, registries,
// plugins and storage to them, which a test does not use and which take most of the time to compile.
package main

import (
	"fmt"
	"os"
)

const usage = `usage: chart template NAME CHART KUBERNETES   values on standard input; prints what "helm template" prints
       chart lint CHART                         values on standard input; fails when "helm lint --strict" does
       chart decode                             manifests on standard input; prints the kind of each
`

func run(arguments []string) error {
	switch {
	case len(arguments) == 4 && arguments[0] == "template":
		return template(arguments[1], arguments[2], arguments[3], os.Stdin, os.Stdout)
	case len(arguments) == 2 && arguments[0] == "lint":
		return lintChart(arguments[1], os.Stdin, os.Stdout)
	case len(arguments) == 1 && arguments[0] == "decode":
		return decode(os.Stdin, os.Stdout)
	}
	return fmt.Errorf("unknown arguments\n%s", usage)
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "Error: %v\n", err)
		os.Exit(1)
	}
}
