"""The field numbers of Kubernetes' protobuf messages (generated.proto of v1.36).

``protobuf_bodies`` decodes with them. A missing field would be lost without a message, so the table
has all fields of each message, except managedFields and those of ObjectMeta that servers set.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

#: The fields of each message, or of a kind by its version and name where several groups have the
#: name. A field is "number:name:type", or "number:name" of a string. Types: s (string), i
#: (integer), b (boolean), t (time), u (time with microseconds), q (quantity), n (number or string),
#: y (bytes), j (JSON), or a message, never recursive; the suffix "*" means a list and "%" a map
#: from strings. A field without a name is a message whose fields are fields of the outer object in
#: JSON.
FIELDS: Final[Mapping[str, str]] = {
    "ObjectMeta": "1:name 2:generateName 3:namespace 5:uid 6:resourceVersion 11:labels:s% "
    "12:annotations:s% 13:ownerReferences:OwnerReference* 14:finalizers:s*",
    "OwnerReference": "1:kind 3:name 4:uid 5:apiVersion 6:controller:b 7:blockOwnerDeletion:b",
    "ObjectReference": "1:kind 2:namespace 3:name 4:uid 5:apiVersion 6:resourceVersion 7:fieldPath",
    "LabelSelector": "1:matchLabels:s% 2:matchExpressions:LabelSelectorRequirement*",
    "LabelSelectorRequirement": "1:key 2:operator 3:values:s*",
    "Preconditions": "1:uid 2:resourceVersion",
    "DeleteOptions": "1:gracePeriodSeconds:i 2:preconditions:Preconditions 3:orphanDependents:b "
    "4:propagationPolicy 5:dryRun:s*",
    "Eviction": "1:metadata:ObjectMeta 2:deleteOptions:DeleteOptions",
    "Binding": "1:metadata:ObjectMeta 2:target:ObjectReference",
    "Namespace": "1:metadata:ObjectMeta 2:spec:NamespaceSpec 3:status:NamespaceStatus",
    "NamespaceSpec": "1:finalizers:s*",
    "ConfigMap": "1:metadata:ObjectMeta 2:data:s% 3:binaryData:y% 4:immutable:b",
    "PriorityClass": "1:metadata:ObjectMeta 2:value:i 3:globalDefault:b 4:description "
    "5:preemptionPolicy",
    "PodDisruptionBudget": "1:metadata:ObjectMeta 2:spec:PodDisruptionBudgetSpec "
    "3:status:PodDisruptionBudgetStatus",
    "PodDisruptionBudgetSpec": "1:minAvailable:n 2:selector:LabelSelector 3:maxUnavailable:n "
    "4:unhealthyPodEvictionPolicy",
    "ResourceQuota": "1:metadata:ObjectMeta 2:spec:ResourceQuotaSpec 3:status:ResourceQuotaStatus",
    "ResourceQuotaSpec": "1:hard:q% 2:scopes:s* 3:scopeSelector:ScopeSelector",
    "ScopeSelector": "1:matchExpressions:ScopedResourceSelectorRequirement*",
    "ScopedResourceSelectorRequirement": "1:scopeName 2:operator 3:values:s*",
    "PolicyRule": "1:verbs:s* 2:apiGroups:s* 3:resources:s* 4:resourceNames:s* "
    "5:nonResourceURLs:s*",
    "Role": "1:metadata:ObjectMeta 2:rules:PolicyRule*",
    "ClusterRole": "1:metadata:ObjectMeta 2:rules:PolicyRule* 3:aggregationRule:AggregationRule",
    "AggregationRule": "1:clusterRoleSelectors:LabelSelector*",
    "Subject": "1:kind 2:apiGroup 3:name 4:namespace",
    "RoleRef": "1:apiGroup 2:kind 3:name",
    "RoleBinding": "1:metadata:ObjectMeta 2:subjects:Subject* 3:roleRef:RoleRef",
    "ClusterRoleBinding": "1:metadata:ObjectMeta 2:subjects:Subject* 3:roleRef:RoleRef",
    "Lease": "1:metadata:ObjectMeta 2:spec:LeaseSpec",
    "LeaseSpec": "1:holderIdentity 2:leaseDurationSeconds:i 3:acquireTime:u 4:renewTime:u "
    "5:leaseTransitions:i 6:strategy 7:preferredHolder",
    "Event": "1:metadata:ObjectMeta 2:involvedObject:ObjectReference 3:reason 4:message "
    "5:source:EventSource 6:firstTimestamp:t 7:lastTimestamp:t 8:count:i 9:type 10:eventTime:u "
    "11:series:EventSeries 12:action 13:related:ObjectReference 14:reportingComponent "
    "15:reportingInstance",
    "events.k8s.io/v1 Event": "1:metadata:ObjectMeta 2:eventTime:u 3:series:EventSeries "
    "4:reportingController 5:reportingInstance 6:action 7:reason 8:regarding:ObjectReference "
    "9:related:ObjectReference 10:note 11:type 12:deprecatedSource:EventSource "
    "13:deprecatedFirstTimestamp:t 14:deprecatedLastTimestamp:t 15:deprecatedCount:i",
    "EventSource": "1:component 2:host",
    "EventSeries": "1:count:i 2:lastObservedTime:u",
    "TokenRequest": "1:metadata:ObjectMeta 2:spec:TokenRequestSpec",
    "TokenRequestSpec": "1:audiences:s* 3:boundObjectRef:BoundObjectReference "
    "4:expirationSeconds:i",
    "BoundObjectReference": "1:kind 2:apiVersion 3:name 4:uid",
    "TokenReview": "1:metadata:ObjectMeta 2:spec:TokenReviewSpec",
    "TokenReviewSpec": "1:token 2:audiences:s*",
    "SubjectAccessReview": "1:metadata:ObjectMeta 2:spec:SubjectAccessReviewSpec",
    "LocalSubjectAccessReview": "1:metadata:ObjectMeta 2:spec:SubjectAccessReviewSpec",
    "SubjectAccessReviewSpec": "1:resourceAttributes:ResourceAttributes "
    "2:nonResourceAttributes:NonResourceAttributes 3:user 4:groups:s* 6:uid",
    "CSINode": "1:metadata:ObjectMeta 2:spec:CSINodeSpec",
    "CSINodeSpec": "1:drivers:CSINodeDriver*",
    "CSINodeDriver": "1:name 2:nodeID 3:topologyKeys:s* 4:allocatable:VolumeNodeResources",
    "VolumeNodeResources": "1:count:i",
    "CertificateSigningRequest": "1:metadata:ObjectMeta 2:spec:CertificateSigningRequestSpec "
    "3:status:CertificateSigningRequestStatus",
    "CertificateSigningRequestSpec": "1:request:y 2:username 3:uid 4:groups:s* 5:usages:s* "
    "7:signerName 8:expirationSeconds:i",
    "CertificateSigningRequestStatus": "1:conditions:CertificateSigningRequestCondition* "
    "2:certificate:y",
    "CertificateSigningRequestCondition": "1:type 2:reason 3:message 4:lastUpdateTime:t "
    "5:lastTransitionTime:t 6:status",
    "SelfSubjectReview": "1:metadata:ObjectMeta",
    "SelfSubjectAccessReview": "1:metadata:ObjectMeta 2:spec:SelfSubjectAccessReviewSpec",
    "SelfSubjectAccessReviewSpec": "1:resourceAttributes:ResourceAttributes "
    "2:nonResourceAttributes:NonResourceAttributes",
    "ResourceAttributes": "1:namespace 2:verb 3:group 4:version 5:resource 6:subresource 7:name",
    "NonResourceAttributes": "1:path 2:verb",
    "SelfSubjectRulesReview": "1:metadata:ObjectMeta 2:spec:SelfSubjectRulesReviewSpec",
    "SelfSubjectRulesReviewSpec": "1:namespace",
    "Pod": "1:metadata:ObjectMeta 2:spec:PodSpec 3:status:PodStatus",
    "PodSpec": "1:volumes:Volume* 20:initContainers:Container* 2:containers:Container* "
    "34:ephemeralContainers:EphemeralContainer* 3:restartPolicy 4:terminationGracePeriodSeconds:i "
    "5:activeDeadlineSeconds:i 6:dnsPolicy 7:nodeSelector:s% 8:serviceAccountName 9:serviceAccount "
    "21:automountServiceAccountToken:b 10:nodeName 11:hostNetwork:b 12:hostPID:b 13:hostIPC:b "
    "27:shareProcessNamespace:b 14:securityContext:PodSecurityContext "
    "15:imagePullSecrets:LocalObjectReference* 16:hostname 17:subdomain 18:affinity:Affinity "
    "19:schedulerName 22:tolerations:Toleration* 23:hostAliases:HostAlias* 24:priorityClassName "
    "25:priority:i 26:dnsConfig:PodDNSConfig 28:readinessGates:PodReadinessGate* "
    "29:runtimeClassName 30:enableServiceLinks:b 31:preemptionPolicy 32:overhead:q% "
    "33:topologySpreadConstraints:TopologySpreadConstraint* 35:setHostnameAsFQDN:b 36:os:PodOS "
    "37:hostUsers:b 38:schedulingGates:PodSchedulingGate* 39:resourceClaims:PodResourceClaim* "
    "40:resources:ResourceRequirements 41:hostnameOverride 43:schedulingGroup:PodSchedulingGroup",
    "Volume": "1:name 2::VolumeSource",
    "VolumeSource": "1:hostPath:HostPathVolumeSource 2:emptyDir:EmptyDirVolumeSource "
    "3:gcePersistentDisk:GCEPersistentDiskVolumeSource "
    "4:awsElasticBlockStore:AWSElasticBlockStoreVolumeSource 5:gitRepo:GitRepoVolumeSource "
    "6:secret:SecretVolumeSource 7:nfs:NFSVolumeSource 8:iscsi:ISCSIVolumeSource "
    "9:glusterfs:GlusterfsVolumeSource 10:persistentVolumeClaim:PersistentVolumeClaimVolumeSource "
    "11:rbd:RBDVolumeSource 12:flexVolume:FlexVolumeSource 13:cinder:CinderVolumeSource "
    "14:cephfs:CephFSVolumeSource 15:flocker:FlockerVolumeSource "
    "16:downwardAPI:DownwardAPIVolumeSource 17:fc:FCVolumeSource "
    "18:azureFile:AzureFileVolumeSource 19:configMap:ConfigMapVolumeSource "
    "20:vsphereVolume:VsphereVirtualDiskVolumeSource 21:quobyte:QuobyteVolumeSource "
    "22:azureDisk:AzureDiskVolumeSource 23:photonPersistentDisk:PhotonPersistentDiskVolumeSource "
    "26:projected:ProjectedVolumeSource 24:portworxVolume:PortworxVolumeSource "
    "25:scaleIO:ScaleIOVolumeSource 27:storageos:StorageOSVolumeSource 28:csi:CSIVolumeSource "
    "29:ephemeral:EphemeralVolumeSource 30:image:ImageVolumeSource",
    "HostPathVolumeSource": "1:path 2:type",
    "EmptyDirVolumeSource": "1:medium 2:sizeLimit:q",
    "GCEPersistentDiskVolumeSource": "1:pdName 2:fsType 3:partition:i 4:readOnly:b",
    "AWSElasticBlockStoreVolumeSource": "1:volumeID 2:fsType 3:partition:i 4:readOnly:b",
    "GitRepoVolumeSource": "1:repository 2:revision 3:directory",
    "SecretVolumeSource": "1:secretName 2:items:KeyToPath* 3:defaultMode:i 4:optional:b",
    "KeyToPath": "1:key 2:path 3:mode:i",
    "NFSVolumeSource": "1:server 2:path 3:readOnly:b",
    "ISCSIVolumeSource": "1:targetPortal 2:iqn 3:lun:i 4:iscsiInterface 5:fsType 6:readOnly:b "
    "7:portals:s* 8:chapAuthDiscovery:b 11:chapAuthSession:b 10:secretRef:LocalObjectReference "
    "12:initiatorName",
    "LocalObjectReference": "1:name",
    "GlusterfsVolumeSource": "1:endpoints 2:path 3:readOnly:b",
    "PersistentVolumeClaimVolumeSource": "1:claimName 2:readOnly:b",
    "RBDVolumeSource": "1:monitors:s* 2:image 3:fsType 4:pool 5:user 6:keyring "
    "7:secretRef:LocalObjectReference 8:readOnly:b",
    "FlexVolumeSource": "1:driver 2:fsType 3:secretRef:LocalObjectReference 4:readOnly:b "
    "5:options:s%",
    "CinderVolumeSource": "1:volumeID 2:fsType 3:readOnly:b 4:secretRef:LocalObjectReference",
    "CephFSVolumeSource": "1:monitors:s* 2:path 3:user 4:secretFile "
    "5:secretRef:LocalObjectReference 6:readOnly:b",
    "FlockerVolumeSource": "1:datasetName 2:datasetUUID",
    "DownwardAPIVolumeSource": "1:items:DownwardAPIVolumeFile* 2:defaultMode:i",
    "DownwardAPIVolumeFile": "1:path 2:fieldRef:ObjectFieldSelector "
    "3:resourceFieldRef:ResourceFieldSelector 4:mode:i",
    "ObjectFieldSelector": "1:apiVersion 2:fieldPath",
    "ResourceFieldSelector": "1:containerName 2:resource 3:divisor:q",
    "FCVolumeSource": "1:targetWWNs:s* 2:lun:i 3:fsType 4:readOnly:b 5:wwids:s*",
    "AzureFileVolumeSource": "1:secretName 2:shareName 3:readOnly:b",
    "ConfigMapVolumeSource": "1::LocalObjectReference 2:items:KeyToPath* 3:defaultMode:i "
    "4:optional:b",
    "VsphereVirtualDiskVolumeSource": "1:volumePath 2:fsType 3:storagePolicyName 4:storagePolicyID",
    "QuobyteVolumeSource": "1:registry 2:volume 3:readOnly:b 4:user 5:group 6:tenant",
    "AzureDiskVolumeSource": "1:diskName 2:diskURI 3:cachingMode 4:fsType 5:readOnly:b 6:kind",
    "PhotonPersistentDiskVolumeSource": "1:pdID 2:fsType",
    "ProjectedVolumeSource": "1:sources:VolumeProjection* 2:defaultMode:i",
    "VolumeProjection": "1:secret:SecretProjection 2:downwardAPI:DownwardAPIProjection "
    "3:configMap:ConfigMapProjection 4:serviceAccountToken:ServiceAccountTokenProjection "
    "5:clusterTrustBundle:ClusterTrustBundleProjection 6:podCertificate:PodCertificateProjection",
    "SecretProjection": "1::LocalObjectReference 2:items:KeyToPath* 4:optional:b",
    "DownwardAPIProjection": "1:items:DownwardAPIVolumeFile*",
    "ConfigMapProjection": "1::LocalObjectReference 2:items:KeyToPath* 4:optional:b",
    "ServiceAccountTokenProjection": "1:audience 2:expirationSeconds:i 3:path",
    "ClusterTrustBundleProjection": "1:name 2:signerName 3:labelSelector:LabelSelector "
    "5:optional:b 4:path",
    "PodCertificateProjection": "1:signerName 2:keyType 3:maxExpirationSeconds:i "
    "4:credentialBundlePath 5:keyPath 6:certificateChainPath 7:userAnnotations:s%",
    "PortworxVolumeSource": "1:volumeID 2:fsType 3:readOnly:b",
    "ScaleIOVolumeSource": "1:gateway 2:system 3:secretRef:LocalObjectReference 4:sslEnabled:b "
    "5:protectionDomain 6:storagePool 7:storageMode 8:volumeName 9:fsType 10:readOnly:b",
    "StorageOSVolumeSource": "1:volumeName 2:volumeNamespace 3:fsType 4:readOnly:b "
    "5:secretRef:LocalObjectReference",
    "CSIVolumeSource": "1:driver 2:readOnly:b 3:fsType 4:volumeAttributes:s% "
    "5:nodePublishSecretRef:LocalObjectReference",
    "EphemeralVolumeSource": "1:volumeClaimTemplate:PersistentVolumeClaimTemplate",
    "PersistentVolumeClaimTemplate": "1:metadata:ObjectMeta 2:spec:PersistentVolumeClaimSpec",
    "PersistentVolumeClaimSpec": "1:accessModes:s* 4:selector:LabelSelector "
    "2:resources:VolumeResourceRequirements 3:volumeName 5:storageClassName 6:volumeMode "
    "7:dataSource:TypedLocalObjectReference 8:dataSourceRef:TypedObjectReference "
    "9:volumeAttributesClassName",
    "VolumeResourceRequirements": "1:limits:q% 2:requests:q%",
    "TypedLocalObjectReference": "1:apiGroup 2:kind 3:name",
    "TypedObjectReference": "1:apiGroup 2:kind 3:name 4:namespace",
    "ImageVolumeSource": "1:reference 2:pullPolicy",
    "Container": "1:name 2:image 3:command:s* 4:args:s* 5:workingDir 6:ports:ContainerPort* "
    "19:envFrom:EnvFromSource* 7:env:EnvVar* 8:resources:ResourceRequirements "
    "23:resizePolicy:ContainerResizePolicy* 24:restartPolicy "
    "25:restartPolicyRules:ContainerRestartRule* 9:volumeMounts:VolumeMount* "
    "21:volumeDevices:VolumeDevice* 10:livenessProbe:Probe 11:readinessProbe:Probe "
    "22:startupProbe:Probe 12:lifecycle:Lifecycle 13:terminationMessagePath "
    "20:terminationMessagePolicy 14:imagePullPolicy 15:securityContext:SecurityContext 16:stdin:b "
    "17:stdinOnce:b 18:tty:b",
    "ContainerPort": "1:name 2:hostPort:i 3:containerPort:i 4:protocol 5:hostIP",
    "EnvFromSource": "1:prefix 2:configMapRef:ConfigMapEnvSource 3:secretRef:SecretEnvSource",
    "ConfigMapEnvSource": "1::LocalObjectReference 2:optional:b",
    "SecretEnvSource": "1::LocalObjectReference 2:optional:b",
    "EnvVar": "1:name 2:value 3:valueFrom:EnvVarSource",
    "EnvVarSource": "1:fieldRef:ObjectFieldSelector 2:resourceFieldRef:ResourceFieldSelector "
    "3:configMapKeyRef:ConfigMapKeySelector 4:secretKeyRef:SecretKeySelector "
    "5:fileKeyRef:FileKeySelector",
    "ConfigMapKeySelector": "1::LocalObjectReference 2:key 3:optional:b",
    "SecretKeySelector": "1::LocalObjectReference 2:key 3:optional:b",
    "FileKeySelector": "1:volumeName 2:path 3:key 4:optional:b",
    "ResourceRequirements": "1:limits:q% 2:requests:q% 3:claims:ResourceClaim*",
    "ResourceClaim": "1:name 2:request",
    "ContainerResizePolicy": "1:resourceName 2:restartPolicy",
    "ContainerRestartRule": "1:action 2:exitCodes:ContainerRestartRuleOnExitCodes",
    "ContainerRestartRuleOnExitCodes": "1:operator 2:values:i*",
    "VolumeMount": "1:name 2:readOnly:b 7:recursiveReadOnly 3:mountPath 4:subPath "
    "5:mountPropagation 6:subPathExpr",
    "VolumeDevice": "1:name 2:devicePath",
    "Probe": "1::ProbeHandler 2:initialDelaySeconds:i 3:timeoutSeconds:i 4:periodSeconds:i "
    "5:successThreshold:i 6:failureThreshold:i 7:terminationGracePeriodSeconds:i",
    "ProbeHandler": "1:exec:ExecAction 2:httpGet:HTTPGetAction 3:tcpSocket:TCPSocketAction "
    "4:grpc:GRPCAction",
    "ExecAction": "1:command:s*",
    "HTTPGetAction": "1:path 2:port:n 3:host 4:scheme 5:httpHeaders:HTTPHeader*",
    "HTTPHeader": "1:name 2:value",
    "TCPSocketAction": "1:port:n 2:host",
    "GRPCAction": "1:port:i 2:service",
    "Lifecycle": "1:postStart:LifecycleHandler 2:preStop:LifecycleHandler 3:stopSignal",
    "LifecycleHandler": "1:exec:ExecAction 2:httpGet:HTTPGetAction 3:tcpSocket:TCPSocketAction "
    "4:sleep:SleepAction",
    "SleepAction": "1:seconds:i",
    "SecurityContext": "1:capabilities:Capabilities 2:privileged:b 3:seLinuxOptions:SELinuxOptions "
    "10:windowsOptions:WindowsSecurityContextOptions 4:runAsUser:i 8:runAsGroup:i 5:runAsNonRoot:b "
    "6:readOnlyRootFilesystem:b 7:allowPrivilegeEscalation:b 9:procMount "
    "11:seccompProfile:SeccompProfile 12:appArmorProfile:AppArmorProfile",
    "Capabilities": "1:add:s* 2:drop:s*",
    "SELinuxOptions": "1:user 2:role 3:type 4:level",
    "WindowsSecurityContextOptions": "1:gmsaCredentialSpecName 2:gmsaCredentialSpec "
    "3:runAsUserName 4:hostProcess:b",
    "SeccompProfile": "1:type 2:localhostProfile",
    "AppArmorProfile": "1:type 2:localhostProfile",
    "EphemeralContainer": "1::Container 2:targetContainerName",
    "PodSecurityContext": "1:seLinuxOptions:SELinuxOptions "
    "8:windowsOptions:WindowsSecurityContextOptions 2:runAsUser:i 6:runAsGroup:i 3:runAsNonRoot:b "
    "4:supplementalGroups:i* 12:supplementalGroupsPolicy 5:fsGroup:i 7:sysctls:Sysctl* "
    "9:fsGroupChangePolicy 10:seccompProfile:SeccompProfile 11:appArmorProfile:AppArmorProfile "
    "13:seLinuxChangePolicy",
    "Sysctl": "1:name 2:value",
    "Affinity": "1:nodeAffinity:NodeAffinity 2:podAffinity:PodAffinity "
    "3:podAntiAffinity:PodAntiAffinity",
    "NodeAffinity": "1:requiredDuringSchedulingIgnoredDuringExecution:NodeSelector "
    "2:preferredDuringSchedulingIgnoredDuringExecution:PreferredSchedulingTerm*",
    "NodeSelector": "1:nodeSelectorTerms:NodeSelectorTerm*",
    "NodeSelectorTerm": "1:matchExpressions:NodeSelectorRequirement* "
    "2:matchFields:NodeSelectorRequirement*",
    "NodeSelectorRequirement": "1:key 2:operator 3:values:s*",
    "PreferredSchedulingTerm": "1:weight:i 2:preference:NodeSelectorTerm",
    "PodAffinity": "1:requiredDuringSchedulingIgnoredDuringExecution:PodAffinityTerm* "
    "2:preferredDuringSchedulingIgnoredDuringExecution:WeightedPodAffinityTerm*",
    "PodAffinityTerm": "1:labelSelector:LabelSelector 2:namespaces:s* 3:topologyKey "
    "4:namespaceSelector:LabelSelector 5:matchLabelKeys:s* 6:mismatchLabelKeys:s*",
    "WeightedPodAffinityTerm": "1:weight:i 2:podAffinityTerm:PodAffinityTerm",
    "PodAntiAffinity": "1:requiredDuringSchedulingIgnoredDuringExecution:PodAffinityTerm* "
    "2:preferredDuringSchedulingIgnoredDuringExecution:WeightedPodAffinityTerm*",
    "Toleration": "1:key 2:operator 3:value 4:effect 5:tolerationSeconds:i",
    "HostAlias": "1:ip 2:hostnames:s*",
    "PodDNSConfig": "1:nameservers:s* 2:searches:s* 3:options:PodDNSConfigOption*",
    "PodDNSConfigOption": "1:name 2:value",
    "PodReadinessGate": "1:conditionType",
    "TopologySpreadConstraint": "1:maxSkew:i 2:topologyKey 3:whenUnsatisfiable "
    "4:labelSelector:LabelSelector 5:minDomains:i 6:nodeAffinityPolicy 7:nodeTaintsPolicy "
    "8:matchLabelKeys:s*",
    "PodOS": "1:name",
    "PodSchedulingGate": "1:name",
    "PodResourceClaim": "1:name 3:resourceClaimName 4:resourceClaimTemplateName",
    "PodSchedulingGroup": "1:podGroupName",
    "PodStatus": "17:observedGeneration:i 1:phase 2:conditions:PodCondition* 3:message 4:reason "
    "11:nominatedNodeName 5:hostIP 16:hostIPs:HostIP* 6:podIP 12:podIPs:PodIP* 7:startTime:t "
    "10:initContainerStatuses:ContainerStatus* 8:containerStatuses:ContainerStatus* 9:qosClass "
    "13:ephemeralContainerStatuses:ContainerStatus* 14:resize "
    "15:resourceClaimStatuses:PodResourceClaimStatus* "
    "18:extendedResourceClaimStatus:PodExtendedResourceClaimStatus 19:allocatedResources:q% "
    "20:resources:ResourceRequirements "
    "21:nodeAllocatableResourceClaimStatuses:NodeAllocatableResourceClaimStatus*",
    "PodCondition": "1:type 7:observedGeneration:i 2:status 3:lastProbeTime:t "
    "4:lastTransitionTime:t 5:reason 6:message",
    "HostIP": "1:ip",
    "PodIP": "1:ip",
    "ContainerStatus": "1:name 2:state:ContainerState 3:lastState:ContainerState 4:ready:b "
    "5:restartCount:i 6:image 7:imageID 8:containerID 9:started:b 10:allocatedResources:q% "
    "11:resources:ResourceRequirements 12:volumeMounts:VolumeMountStatus* 13:user:ContainerUser "
    "14:allocatedResourcesStatus:ResourceStatus* 15:stopSignal",
    "ContainerState": "1:waiting:ContainerStateWaiting 2:running:ContainerStateRunning "
    "3:terminated:ContainerStateTerminated",
    "ContainerStateWaiting": "1:reason 2:message",
    "ContainerStateRunning": "1:startedAt:t",
    "ContainerStateTerminated": "1:exitCode:i 2:signal:i 3:reason 4:message 5:startedAt:t "
    "6:finishedAt:t 7:containerID",
    "VolumeMountStatus": "1:name 2:mountPath 3:readOnly:b 4:recursiveReadOnly "
    "5:volumeStatus:VolumeStatus",
    "VolumeStatus": "1:image:ImageVolumeStatus",
    "ImageVolumeStatus": "1:imageRef",
    "ContainerUser": "1:linux:LinuxContainerUser",
    "LinuxContainerUser": "1:uid:i 2:gid:i 3:supplementalGroups:i*",
    "ResourceStatus": "1:name 2:resources:ResourceHealth*",
    "ResourceHealth": "1:resourceID 2:health 6:message",
    "PodResourceClaimStatus": "1:name 2:resourceClaimName",
    "PodExtendedResourceClaimStatus": "1:requestMappings:ContainerExtendedResourceRequest* "
    "2:resourceClaimName",
    "ContainerExtendedResourceRequest": "1:containerName 2:resourceName 3:requestName",
    "NodeAllocatableResourceClaimStatus": "1:resourceClaimName 2:containers:s* 3:resources:q%",
    "Service": "1:metadata:ObjectMeta 2:spec:ServiceSpec 3:status:ServiceStatus",
    "ServiceSpec": "1:ports:ServicePort* 2:selector:s% 3:clusterIP 18:clusterIPs:s* 4:type "
    "5:externalIPs:s* 7:sessionAffinity 8:loadBalancerIP 9:loadBalancerSourceRanges:s* "
    "10:externalName 11:externalTrafficPolicy 12:healthCheckNodePort:i "
    "13:publishNotReadyAddresses:b 14:sessionAffinityConfig:SessionAffinityConfig 19:ipFamilies:s* "
    "17:ipFamilyPolicy 20:allocateLoadBalancerNodePorts:b 21:loadBalancerClass "
    "22:internalTrafficPolicy 23:trafficDistribution",
    "ServicePort": "1:name 2:protocol 6:appProtocol 3:port:i 4:targetPort:n 5:nodePort:i",
    "SessionAffinityConfig": "1:clientIP:ClientIPConfig",
    "ClientIPConfig": "1:timeoutSeconds:i",
    "ServiceStatus": "1:loadBalancer:LoadBalancerStatus 2:conditions:Condition*",
    "LoadBalancerStatus": "1:ingress:LoadBalancerIngress*",
    "LoadBalancerIngress": "1:ip 2:hostname 3:ipMode 4:ports:PortStatus*",
    "PortStatus": "1:port:i 2:protocol 3:error",
    "Condition": "1:type 2:status 3:observedGeneration:i 4:lastTransitionTime:t 5:reason 6:message",
    "Secret": "1:metadata:ObjectMeta 5:immutable:b 2:data:y% 4:stringData:s% 3:type",
    "ServiceAccount": "1:metadata:ObjectMeta 2:secrets:ObjectReference* "
    "3:imagePullSecrets:LocalObjectReference* 4:automountServiceAccountToken:b",
    "PodTemplate": "1:metadata:ObjectMeta 2:template:PodTemplateSpec",
    "PodTemplateSpec": "1:metadata:ObjectMeta 2:spec:PodSpec",
    "Node": "1:metadata:ObjectMeta 2:spec:NodeSpec 3:status:NodeStatus",
    "NodeSpec": "1:podCIDR 7:podCIDRs:s* 3:providerID 4:unschedulable:b 5:taints:Taint* "
    "6:configSource:NodeConfigSource 2:externalID",
    "Taint": "1:key 2:value 3:effect 4:timeAdded:t",
    "NodeConfigSource": "2:configMap:ConfigMapNodeConfigSource",
    "ConfigMapNodeConfigSource": "1:namespace 2:name 3:uid 4:resourceVersion 5:kubeletConfigKey",
    "NodeStatus": "1:capacity:q% 2:allocatable:q% 3:phase 4:conditions:NodeCondition* "
    "5:addresses:NodeAddress* 6:daemonEndpoints:NodeDaemonEndpoints 7:nodeInfo:NodeSystemInfo "
    "8:images:ContainerImage* 9:volumesInUse:s* 10:volumesAttached:AttachedVolume* "
    "11:config:NodeConfigStatus 12:runtimeHandlers:NodeRuntimeHandler* 13:features:NodeFeatures "
    "14:declaredFeatures:s*",
    "NodeCondition": "1:type 2:status 3:lastHeartbeatTime:t 4:lastTransitionTime:t 5:reason "
    "6:message",
    "NodeAddress": "1:type 2:address",
    "NodeDaemonEndpoints": "1:kubeletEndpoint:DaemonEndpoint",
    "DaemonEndpoint": "1:Port:i",
    "NodeSystemInfo": "1:machineID 2:systemUUID 3:bootID 4:kernelVersion 5:osImage "
    "6:containerRuntimeVersion 7:kubeletVersion 8:kubeProxyVersion 9:operatingSystem "
    "10:architecture 11:swap:NodeSwapStatus",
    "NodeSwapStatus": "1:capacity:i",
    "ContainerImage": "1:names:s* 2:sizeBytes:i",
    "AttachedVolume": "1:name 2:devicePath",
    "NodeConfigStatus": "1:assigned:NodeConfigSource 2:active:NodeConfigSource "
    "3:lastKnownGood:NodeConfigSource 4:error",
    "NodeRuntimeHandler": "1:name 2:features:NodeRuntimeHandlerFeatures",
    "NodeRuntimeHandlerFeatures": "1:recursiveReadOnlyMounts:b 2:userNamespaces:b",
    "NodeFeatures": "1:supplementalGroupsPolicy:b",
    "Deployment": "1:metadata:ObjectMeta 2:spec:DeploymentSpec 3:status:DeploymentStatus",
    "DeploymentSpec": "1:replicas:i 2:selector:LabelSelector 3:template:PodTemplateSpec "
    "4:strategy:DeploymentStrategy 5:minReadySeconds:i 6:revisionHistoryLimit:i 7:paused:b "
    "9:progressDeadlineSeconds:i",
    "DeploymentStrategy": "1:type 2:rollingUpdate:RollingUpdateDeployment",
    "RollingUpdateDeployment": "1:maxUnavailable:n 2:maxSurge:n",
    "DeploymentStatus": "1:observedGeneration:i 2:replicas:i 3:updatedReplicas:i 7:readyReplicas:i "
    "4:availableReplicas:i 5:unavailableReplicas:i 9:terminatingReplicas:i "
    "6:conditions:DeploymentCondition* 8:collisionCount:i",
    "DeploymentCondition": "1:type 2:status 6:lastUpdateTime:t 7:lastTransitionTime:t 4:reason "
    "5:message",
    "DaemonSet": "1:metadata:ObjectMeta 2:spec:DaemonSetSpec 3:status:DaemonSetStatus",
    "DaemonSetSpec": "1:selector:LabelSelector 2:template:PodTemplateSpec "
    "3:updateStrategy:DaemonSetUpdateStrategy 4:minReadySeconds:i 6:revisionHistoryLimit:i",
    "DaemonSetUpdateStrategy": "1:type 2:rollingUpdate:RollingUpdateDaemonSet",
    "RollingUpdateDaemonSet": "1:maxUnavailable:n 2:maxSurge:n",
    "DaemonSetStatus": "1:currentNumberScheduled:i 2:numberMisscheduled:i "
    "3:desiredNumberScheduled:i 4:numberReady:i 5:observedGeneration:i 6:updatedNumberScheduled:i "
    "7:numberAvailable:i 8:numberUnavailable:i 9:collisionCount:i "
    "10:conditions:DaemonSetCondition*",
    "DaemonSetCondition": "1:type 2:status 3:lastTransitionTime:t 4:reason 5:message",
    "StatefulSet": "1:metadata:ObjectMeta 2:spec:StatefulSetSpec 3:status:StatefulSetStatus",
    "StatefulSetSpec": "1:replicas:i 2:selector:LabelSelector 3:template:PodTemplateSpec "
    "4:volumeClaimTemplates:PersistentVolumeClaim* 5:serviceName 6:podManagementPolicy "
    "7:updateStrategy:StatefulSetUpdateStrategy 8:revisionHistoryLimit:i 9:minReadySeconds:i "
    "10:persistentVolumeClaimRetentionPolicy:StatefulSetPersistentVolumeClaimRetentionPolicy "
    "11:ordinals:StatefulSetOrdinals",
    "PersistentVolumeClaim": "1:metadata:ObjectMeta 2:spec:PersistentVolumeClaimSpec "
    "3:status:PersistentVolumeClaimStatus",
    "PersistentVolumeClaimStatus": "1:phase 2:accessModes:s* 3:capacity:q% "
    "4:conditions:PersistentVolumeClaimCondition* 5:allocatedResources:q% "
    "7:allocatedResourceStatuses:s% 8:currentVolumeAttributesClassName "
    "9:modifyVolumeStatus:ModifyVolumeStatus",
    "PersistentVolumeClaimCondition": "1:type 2:status 3:lastProbeTime:t 4:lastTransitionTime:t "
    "5:reason 6:message",
    "ModifyVolumeStatus": "1:targetVolumeAttributesClassName 2:status",
    "StatefulSetUpdateStrategy": "1:type 2:rollingUpdate:RollingUpdateStatefulSetStrategy",
    "RollingUpdateStatefulSetStrategy": "1:partition:i 2:maxUnavailable:n",
    "StatefulSetPersistentVolumeClaimRetentionPolicy": "1:whenDeleted 2:whenScaled",
    "StatefulSetOrdinals": "1:start:i",
    "StatefulSetStatus": "1:observedGeneration:i 2:replicas:i 3:readyReplicas:i "
    "4:currentReplicas:i 5:updatedReplicas:i 6:currentRevision 7:updateRevision 9:collisionCount:i "
    "10:conditions:StatefulSetCondition* 11:availableReplicas:i",
    "StatefulSetCondition": "1:type 2:status 3:lastTransitionTime:t 4:reason 5:message",
    "ReplicaSet": "1:metadata:ObjectMeta 2:spec:ReplicaSetSpec 3:status:ReplicaSetStatus",
    "ReplicaSetSpec": "1:replicas:i 4:minReadySeconds:i 2:selector:LabelSelector "
    "3:template:PodTemplateSpec",
    "ReplicaSetStatus": "1:replicas:i 2:fullyLabeledReplicas:i 4:readyReplicas:i "
    "5:availableReplicas:i 7:terminatingReplicas:i 3:observedGeneration:i "
    "6:conditions:ReplicaSetCondition*",
    "ReplicaSetCondition": "1:type 2:status 3:lastTransitionTime:t 4:reason 5:message",
    "Job": "1:metadata:ObjectMeta 2:spec:JobSpec 3:status:JobStatus",
    "JobSpec": "1:parallelism:i 2:completions:i 3:activeDeadlineSeconds:i "
    "11:podFailurePolicy:PodFailurePolicy 16:successPolicy:SuccessPolicy 7:backoffLimit:i "
    "12:backoffLimitPerIndex:i 13:maxFailedIndexes:i 4:selector:LabelSelector 5:manualSelector:b "
    "6:template:PodTemplateSpec 8:ttlSecondsAfterFinished:i 9:completionMode 10:suspend:b "
    "14:podReplacementPolicy 15:managedBy",
    "PodFailurePolicy": "1:rules:PodFailurePolicyRule*",
    "PodFailurePolicyRule": "1:action 2:onExitCodes:PodFailurePolicyOnExitCodesRequirement "
    "3:onPodConditions:PodFailurePolicyOnPodConditionsPattern*",
    "PodFailurePolicyOnExitCodesRequirement": "1:containerName 2:operator 3:values:i*",
    "PodFailurePolicyOnPodConditionsPattern": "1:type 2:status",
    "SuccessPolicy": "1:rules:SuccessPolicyRule*",
    "SuccessPolicyRule": "1:succeededIndexes 2:succeededCount:i",
    "JobStatus": "1:conditions:JobCondition* 2:startTime:t 3:completionTime:t 4:active:i "
    "5:succeeded:i 6:failed:i 11:terminating:i 7:completedIndexes 10:failedIndexes "
    "8:uncountedTerminatedPods:UncountedTerminatedPods 9:ready:i",
    "JobCondition": "1:type 2:status 3:lastProbeTime:t 4:lastTransitionTime:t 5:reason 6:message",
    "UncountedTerminatedPods": "1:succeeded:s* 2:failed:s*",
    "CronJob": "1:metadata:ObjectMeta 2:spec:CronJobSpec 3:status:CronJobStatus",
    "CronJobSpec": "1:schedule 8:timeZone 2:startingDeadlineSeconds:i 3:concurrencyPolicy "
    "4:suspend:b 5:jobTemplate:JobTemplateSpec 6:successfulJobsHistoryLimit:i "
    "7:failedJobsHistoryLimit:i",
    "JobTemplateSpec": "1:metadata:ObjectMeta 2:spec:JobSpec",
    "CronJobStatus": "1:active:ObjectReference* 4:lastScheduleTime:t 5:lastSuccessfulTime:t",
    "HorizontalPodAutoscalerSpec": "1:scaleTargetRef:CrossVersionObjectReference 2:minReplicas:i "
    "3:maxReplicas:i 4:metrics:MetricSpec* 5:behavior:HorizontalPodAutoscalerBehavior",
    "CrossVersionObjectReference": "1:kind 2:name 3:apiVersion",
    "MetricSpec": "1:type 2:object:ObjectMetricSource 3:pods:PodsMetricSource "
    "4:resource:ResourceMetricSource 7:containerResource:ContainerResourceMetricSource "
    "5:external:ExternalMetricSource",
    "ObjectMetricSource": "1:describedObject:CrossVersionObjectReference 2:target:MetricTarget "
    "3:metric:MetricIdentifier",
    "MetricTarget": "1:type 2:value:q 3:averageValue:q 4:averageUtilization:i",
    "MetricIdentifier": "1:name 2:selector:LabelSelector",
    "PodsMetricSource": "1:metric:MetricIdentifier 2:target:MetricTarget",
    "ResourceMetricSource": "1:name 2:target:MetricTarget",
    "ContainerResourceMetricSource": "1:name 2:target:MetricTarget 3:container",
    "ExternalMetricSource": "1:metric:MetricIdentifier 2:target:MetricTarget",
    "HorizontalPodAutoscalerBehavior": "1:scaleUp:HPAScalingRules 2:scaleDown:HPAScalingRules",
    "HPAScalingRules": "3:stabilizationWindowSeconds:i 1:selectPolicy 2:policies:HPAScalingPolicy* "
    "4:tolerance:q",
    "HPAScalingPolicy": "1:type 2:value:i 3:periodSeconds:i",
    "HorizontalPodAutoscalerStatus": "1:observedGeneration:i 2:lastScaleTime:t 3:currentReplicas:i "
    "4:desiredReplicas:i 5:currentMetrics:MetricStatus* "
    "6:conditions:HorizontalPodAutoscalerCondition*",
    "MetricStatus": "1:type 2:object:ObjectMetricStatus 3:pods:PodsMetricStatus "
    "4:resource:ResourceMetricStatus 7:containerResource:ContainerResourceMetricStatus "
    "5:external:ExternalMetricStatus",
    "ObjectMetricStatus": "1:metric:MetricIdentifier 2:current:MetricValueStatus "
    "3:describedObject:CrossVersionObjectReference",
    "MetricValueStatus": "1:value:q 2:averageValue:q 3:averageUtilization:i",
    "PodsMetricStatus": "1:metric:MetricIdentifier 2:current:MetricValueStatus",
    "ResourceMetricStatus": "1:name 2:current:MetricValueStatus",
    "ContainerResourceMetricStatus": "1:name 2:current:MetricValueStatus 3:container",
    "ExternalMetricStatus": "1:metric:MetricIdentifier 2:current:MetricValueStatus",
    "HorizontalPodAutoscalerCondition": "1:type 2:status 3:lastTransitionTime:t 4:reason 5:message",
    "Scale": "1:metadata:ObjectMeta 2:spec:ScaleSpec 3:status:ScaleStatus",
    "ScaleSpec": "1:replicas:i",
    "ScaleStatus": "1:replicas:i 2:selector",
    "autoscaling/v2 HorizontalPodAutoscaler": "1:metadata:ObjectMeta "
    "2:spec:HorizontalPodAutoscalerSpec 3:status:HorizontalPodAutoscalerStatus",
    "PersistentVolume": "1:metadata:ObjectMeta 2:spec:PersistentVolumeSpec "
    "3:status:PersistentVolumeStatus",
    "PersistentVolumeSpec": "1:capacity:q% 2::PersistentVolumeSource 3:accessModes:s* "
    "4:claimRef:ObjectReference 5:persistentVolumeReclaimPolicy 6:storageClassName "
    "7:mountOptions:s* 8:volumeMode 9:nodeAffinity:VolumeNodeAffinity 10:volumeAttributesClassName",
    "PersistentVolumeSource": "1:gcePersistentDisk:GCEPersistentDiskVolumeSource "
    "2:awsElasticBlockStore:AWSElasticBlockStoreVolumeSource 3:hostPath:HostPathVolumeSource "
    "4:glusterfs:GlusterfsPersistentVolumeSource 5:nfs:NFSVolumeSource "
    "6:rbd:RBDPersistentVolumeSource 7:iscsi:ISCSIPersistentVolumeSource "
    "8:cinder:CinderPersistentVolumeSource 9:cephfs:CephFSPersistentVolumeSource "
    "10:fc:FCVolumeSource 11:flocker:FlockerVolumeSource 12:flexVolume:FlexPersistentVolumeSource "
    "13:azureFile:AzureFilePersistentVolumeSource 14:vsphereVolume:VsphereVirtualDiskVolumeSource "
    "15:quobyte:QuobyteVolumeSource 16:azureDisk:AzureDiskVolumeSource "
    "17:photonPersistentDisk:PhotonPersistentDiskVolumeSource "
    "18:portworxVolume:PortworxVolumeSource 19:scaleIO:ScaleIOPersistentVolumeSource "
    "20:local:LocalVolumeSource 21:storageos:StorageOSPersistentVolumeSource "
    "22:csi:CSIPersistentVolumeSource",
    "GlusterfsPersistentVolumeSource": "1:endpoints 2:path 3:readOnly:b 4:endpointsNamespace",
    "RBDPersistentVolumeSource": "1:monitors:s* 2:image 3:fsType 4:pool 5:user 6:keyring "
    "7:secretRef:SecretReference 8:readOnly:b",
    "SecretReference": "1:name 2:namespace",
    "ISCSIPersistentVolumeSource": "1:targetPortal 2:iqn 3:lun:i 4:iscsiInterface 5:fsType "
    "6:readOnly:b 7:portals:s* 8:chapAuthDiscovery:b 11:chapAuthSession:b "
    "10:secretRef:SecretReference 12:initiatorName",
    "CinderPersistentVolumeSource": "1:volumeID 2:fsType 3:readOnly:b 4:secretRef:SecretReference",
    "CephFSPersistentVolumeSource": "1:monitors:s* 2:path 3:user 4:secretFile "
    "5:secretRef:SecretReference 6:readOnly:b",
    "FlexPersistentVolumeSource": "1:driver 2:fsType 3:secretRef:SecretReference 4:readOnly:b "
    "5:options:s%",
    "AzureFilePersistentVolumeSource": "1:secretName 2:shareName 3:readOnly:b 4:secretNamespace",
    "ScaleIOPersistentVolumeSource": "1:gateway 2:system 3:secretRef:SecretReference "
    "4:sslEnabled:b 5:protectionDomain 6:storagePool 7:storageMode 8:volumeName 9:fsType "
    "10:readOnly:b",
    "LocalVolumeSource": "1:path 2:fsType",
    "StorageOSPersistentVolumeSource": "1:volumeName 2:volumeNamespace 3:fsType 4:readOnly:b "
    "5:secretRef:ObjectReference",
    "CSIPersistentVolumeSource": "1:driver 2:volumeHandle 3:readOnly:b 4:fsType "
    "5:volumeAttributes:s% 6:controllerPublishSecretRef:SecretReference "
    "7:nodeStageSecretRef:SecretReference 8:nodePublishSecretRef:SecretReference "
    "9:controllerExpandSecretRef:SecretReference 10:nodeExpandSecretRef:SecretReference",
    "VolumeNodeAffinity": "1:required:NodeSelector",
    "PersistentVolumeStatus": "1:phase 2:message 3:reason 4:lastPhaseTransitionTime:t",
    "ControllerRevision": "1:metadata:ObjectMeta 2:data:j 3:revision:i",
    "Endpoints": "1:metadata:ObjectMeta 2:subsets:EndpointSubset*",
    "EndpointSubset": "1:addresses:EndpointAddress* 2:notReadyAddresses:EndpointAddress* "
    "3:ports:EndpointPort*",
    "EndpointAddress": "1:ip 3:hostname 4:nodeName 2:targetRef:ObjectReference",
    "EndpointPort": "1:name 2:port:i 3:protocol 4:appProtocol",
    "EndpointSlice": "1:metadata:ObjectMeta 2:endpoints:Endpoint* 3:ports:EndpointSlicePort* "
    "4:addressType",
    "EndpointSlicePort": "1:name 2:protocol 3:port:i 4:appProtocol",
    "Endpoint": "1:addresses:s* 2:conditions:EndpointConditions 3:hostname "
    "4:targetRef:ObjectReference 5:deprecatedTopology:s% 6:nodeName 7:zone 8:hints:EndpointHints",
    "EndpointConditions": "1:ready:b 2:serving:b 3:terminating:b",
    "EndpointHints": "1:forZones:ForZone* 2:forNodes:ForNode*",
    "ForZone": "1:name",
    "ForNode": "1:name",
    "ReplicationController": "1:metadata:ObjectMeta 2:spec:ReplicationControllerSpec "
    "3:status:ReplicationControllerStatus",
    "ReplicationControllerSpec": "1:replicas:i 4:minReadySeconds:i 2:selector:s% "
    "3:template:PodTemplateSpec",
    "ReplicationControllerStatus": "1:replicas:i 2:fullyLabeledReplicas:i 4:readyReplicas:i "
    "5:availableReplicas:i 3:observedGeneration:i 6:conditions:ReplicationControllerCondition*",
    "ReplicationControllerCondition": "1:type 2:status 3:lastTransitionTime:t 4:reason 5:message",
    "VolumeAttachment": "1:metadata:ObjectMeta 2:spec:VolumeAttachmentSpec "
    "3:status:VolumeAttachmentStatus",
    "VolumeAttachmentSpec": "1:attacher 2:source:VolumeAttachmentSource 3:nodeName",
    "VolumeAttachmentSource": "1:persistentVolumeName 2:inlineVolumeSpec:PersistentVolumeSpec",
    "VolumeAttachmentStatus": "1:attached:b 2:attachmentMetadata:s% 3:attachError:VolumeError "
    "4:detachError:VolumeError",
    "VolumeError": "1:time:t 2:message 3:errorCode:i",
    "PodDisruptionBudgetStatus": "1:observedGeneration:i 2:disruptedPods:t% 3:disruptionsAllowed:i "
    "4:currentHealthy:i 5:desiredHealthy:i 6:expectedPods:i 7:conditions:Condition*",
    "NamespaceStatus": "1:phase 2:conditions:NamespaceCondition*",
    "NamespaceCondition": "1:type 2:status 4:lastTransitionTime:t 5:reason 6:message",
    "ResourceQuotaStatus": "1:hard:q% 2:used:q%",
    "resource.k8s.io/v1 ResourceClaim": "1:metadata:ObjectMeta 2:spec:ResourceClaimSpec "
    "3:status:ResourceClaimStatus",
    "ResourceClaimSpec": "1:devices:DeviceClaim",
    "DeviceClaim": "1:requests:DeviceRequest* 2:constraints:DeviceConstraint* "
    "3:config:DeviceClaimConfiguration*",
    "DeviceRequest": "1:name 2:exactly:ExactDeviceRequest 3:firstAvailable:DeviceSubRequest*",
    "ExactDeviceRequest": "1:deviceClassName 2:selectors:DeviceSelector* 3:allocationMode "
    "4:count:i 5:adminAccess:b 6:tolerations:DeviceToleration* 7:capacity:CapacityRequirements",
    "DeviceSelector": "1:cel:CELDeviceSelector",
    "CELDeviceSelector": "1:expression",
    "DeviceToleration": "1:key 2:operator 3:value 4:effect 5:tolerationSeconds:i",
    "CapacityRequirements": "1:requests:q%",
    "DeviceSubRequest": "1:name 2:deviceClassName 3:selectors:DeviceSelector* 4:allocationMode "
    "5:count:i 6:tolerations:DeviceToleration* 7:capacity:CapacityRequirements",
    "DeviceConstraint": "1:requests:s* 2:matchAttribute 3:distinctAttribute",
    "DeviceClaimConfiguration": "1:requests:s* 2::DeviceConfiguration",
    "DeviceConfiguration": "1:opaque:OpaqueDeviceConfiguration",
    "OpaqueDeviceConfiguration": "1:driver 2:parameters:j",
    "ResourceClaimStatus": "1:allocation:AllocationResult "
    "2:reservedFor:ResourceClaimConsumerReference* 4:devices:AllocatedDeviceStatus*",
    "AllocationResult": "1:devices:DeviceAllocationResult 3:nodeSelector:NodeSelector "
    "5:allocationTimestamp:t",
    "DeviceAllocationResult": "1:results:DeviceRequestAllocationResult* "
    "2:config:DeviceAllocationConfiguration*",
    "DeviceRequestAllocationResult": "1:request 2:driver 3:pool 4:device 5:adminAccess:b "
    "6:tolerations:DeviceToleration* 7:bindingConditions:s* 8:bindingFailureConditions:s* "
    "9:shareID 10:consumedCapacity:q%",
    "DeviceAllocationConfiguration": "1:source 2:requests:s* 3::DeviceConfiguration",
    "ResourceClaimConsumerReference": "1:apiGroup 3:resource 4:name 5:uid",
    "AllocatedDeviceStatus": "1:driver 2:pool 3:device 7:shareID 4:conditions:Condition* 5:data:j "
    "6:networkData:NetworkDeviceData",
    "NetworkDeviceData": "1:interfaceName 2:ips:s* 3:hardwareAddress",
    "ResourceClaimTemplate": "1:metadata:ObjectMeta 2:spec:ResourceClaimTemplateSpec",
    "ResourceClaimTemplateSpec": "1:metadata:ObjectMeta 2:spec:ResourceClaimSpec",
}
