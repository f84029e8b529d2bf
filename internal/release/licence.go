package release

import (
	_ "embed"
	"fmt"
	"regexp"
	"strings"
)

// spdxText lists the identifiers of the SPDX licence list, one a line.
//
//go:embed spdx.txt
var spdxText string

var licenceRef = regexp.MustCompile(`^LicenseRef-[A-Za-z0-9.-]+$`)

// checkLicence gives the licence as SPDX spells it. Compound expressions are refused: one dataset is under one licence.
func checkLicence(id string) (string, error) {
	if licenceRef.MatchString(id) {
		return id, nil
	}
	for known := range strings.Lines(spdxText) {
		if known = strings.TrimSpace(known); known != "" && strings.EqualFold(known, id) {
			return known, nil
		}
	}
	return "", fmt.Errorf("%w: %q is not an SPDX licence identifier such as CC-BY-4.0; a licence of your own is LicenseRef-<name>", ErrRefused, id)
}

// hubSame are licences whose id on the Hub is the SPDX identifier in lower case.
const hubSame = ` apache-2.0 mit afl-3.0 artistic-2.0 bsl-1.0 bsd-2-clause bsd-3-clause bsd-3-clause-clear cc0-1.0
 cc-by-2.0 cc-by-2.5 cc-by-3.0 cc-by-4.0 cc-by-sa-3.0 cc-by-sa-4.0 cc-by-nc-2.0 cc-by-nc-3.0 cc-by-nc-4.0 cc-by-nd-4.0
 cc-by-nc-nd-3.0 cc-by-nc-nd-4.0 cc-by-nc-sa-2.0 cc-by-nc-sa-3.0 cc-by-nc-sa-4.0 cdla-sharing-1.0 cdla-permissive-1.0
 cdla-permissive-2.0 wtfpl ecl-2.0 epl-1.0 epl-2.0 etalab-2.0 eupl-1.1 eupl-1.2 isc lppl-1.3c ms-pl mpl-2.0 osl-3.0
 postgresql ofl-1.1 ncsa unlicense zlib `

// hubOther are licences that the Hub names otherwise.
var hubOther = map[string]string{
	"odc-by-1.0": "odc-by", "odbl-1.0": "odbl", "pddl-1.0": "pddl",
	"agpl-3.0-only": "agpl-3.0", "agpl-3.0-or-later": "agpl-3.0", "gpl-2.0-only": "gpl-2.0", "gpl-2.0-or-later": "gpl-2.0",
	"gpl-3.0-only": "gpl-3.0", "gpl-3.0-or-later": "gpl-3.0", "lgpl-2.1-only": "lgpl-2.1", "lgpl-2.1-or-later": "lgpl-2.1",
	"lgpl-3.0-only": "lgpl-3.0", "lgpl-3.0-or-later": "lgpl-3.0",
}

// hubLicence is the Hub's id of an SPDX licence; where it has none, "other" and the name to go with it.
func hubLicence(spdx string) (id, name string) {
	low := strings.ToLower(spdx)
	if to, ok := hubOther[low]; ok {
		return to, ""
	}
	for _, same := range strings.Fields(hubSame) {
		if same == low {
			return same, ""
		}
	}
	return "other", low
}
